// agent.mjs: an agent for Node 20, without packages. It speaks JSON-RPC over HTTP: docs/protocol.md.
//
// A task's content is a number. The work is to count to it, one step a second.
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const { REEVE_URL, REEVE_TOKEN, REEVE_CONVERSATION, REEVE_ROLE: role } = process.env;
const me = { conversation: Number(REEVE_CONVERSATION), role, connectionId: randomUUID() };

// While the server is away the call is repeated: none of these methods does its work twice.
async function call(method, params) {
  for (;;) {
    try {
      const response = await fetch(`${REEVE_URL}/rpc`, {
        method: "POST",
        headers: { authorization: `Bearer ${REEVE_TOKEN}`, "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      });
      const { result, error } = await response.json();
      if (!error) return result;
      if (error.data.name !== "UNAVAILABLE") return { refused: `${method}: ${error.message}` };
    } catch (e) {
      console.error(`${method}: ${e.message}; trying again`);
    }
    await pause(1000);
  }
}

// Takes what task.wait has announced: a new task, or one whose tools have answered.
async function take({ status, task }) {
  if (status === "task") {
    const { epoch, refused, task: claimed } = await call("task.claim", me);
    return refused ? { refused } : call("task.start", { task: claimed.task, epoch });
  }
  const held = { task: task.task, epoch: task.epoch };
  const { results, refused } = await call("task.resume", held);
  if (refused) return { refused };
  const toolCallIds = results.map((r) => r.toolCallId);
  return call("task.applied", { ...held, toolCallIds, unattended: false });
}

async function work({ task, epoch, content }) {
  let lost = false;
  const beat = setInterval(async () => {
    const news = await call("participant.heartbeat", { ...me, task, epoch });
    lost ||= news.staleEpoch || news.directive === "stop";
  }, 10_000);
  try {
    for (let step = 1; step <= content; step++) {
      await pause(1000);
      if (lost) return { refused: `task ${task} was taken away` };
      const note = `step ${step} of ${content}`;
      const { refused } = await call("task.progress", { task, epoch, note });
      if (refused) return { refused };
    }
    return await call("task.complete", { task, epoch, deliverable: { steps: content } });
  } finally {
    clearInterval(beat);
  }
}

await call("participant.join", me);
for (;;) {
  const news = await call("task.wait", { ...me, settled: true });
  if (news.refused) throw new Error(news.refused);
  if (["stop", "superseded", "ended"].includes(news.status)) break;
  if (news.status === "rejoin_required") await call("participant.join", me);
  if (news.status === "blocked") await pause(1000);
  if (news.status !== "task" && news.status !== "resume") continue;
  const taken = await take(news);
  const { refused } = taken.refused ? taken : await work(taken.task);
  console.log(refused ?? `task ${taken.task.task} done`);
  if (refused) await pause(1000);
}
