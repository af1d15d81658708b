/* server.h: the verb that ends all faults, and one that does nothing. */
#pragma once

extern const int server_settle, server_wait;
