// An agent without any library of ours: JSON-RPC over HTTP, as docs/protocol.md says it.
// At the first attempt of every 5th task it throws in the middle of its work, and is started again.
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const { REEVE_URL, REEVE_TOKEN, REEVE_ROLE: role } = process.env;
const conversation = Number(process.env.REEVE_CONVERSATION);
const me = { conversation, role, connectionId: randomUUID() };
const overWith = new Set(["stop", "superseded", "ended"]);

async function call(method, params) {
  const response = await fetch(`${REEVE_URL}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${REEVE_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = await response.json();
  if (error) throw new Error(`${method}: ${error.data?.name ?? error.code}: ${error.message}`);
  return result;
}

async function work({ task, epoch, attempts }) {
  const beat = setInterval(() => {
    call("participant.heartbeat", { ...me, task, epoch }).catch((e) => console.error(e.message));
  }, 10_000);
  try {
    await call("task.start", { task, epoch });
    for (const percent of [30, 60, 90]) {
      await pause(700);
      if (task % 5 === 0 && attempts === 0 && percent === 60) {
        throw new Error(`task ${task}: this cannot be right`);
      }
      await call("task.progress", { task, epoch, note: `${percent} % checked`, progress: percent });
    }
    const handoff = { role: "planner", content: { after: task } };
    await call("task.complete", { task, epoch, deliverable: { checked: true }, handoff });
    console.log(`task ${task} checked`);
  } finally {
    clearInterval(beat);
  }
}

console.log(`${role} is here, process ${process.pid}`);
await call("participant.join", me);
for (;;) {
  const { status } = await call("task.wait", { ...me, timeoutMs: 20_000 });
  if (overWith.has(status)) break;
  if (status === "rejoin_required") await call("participant.join", me);
  if (status === "blocked") await pause(1000);
  if (status === "task") await work((await call("task.claim", me)).task);
}
