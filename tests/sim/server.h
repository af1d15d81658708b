/* server.h: the verb that ends all faults. */
#pragma once

extern const int server_settle;
