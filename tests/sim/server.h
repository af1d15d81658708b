/* server.h: the verb that ends all faults, and the one that ends the history. */
#pragma once

extern const int server_settle;
