/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs of one process, for programs that try what a device says. */
#ifndef WEFT_EMULATOR_ENDS_H
#define WEFT_EMULATOR_ENDS_H

#include <infiniband/verbs.h>

enum {
    BYTES = 4096, /* of the memory of an end */
    DEPTH = 4,    /* of its queues */
    ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
          IBV_ACCESS_REMOTE_ATOMIC,
};

struct end {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};

extern struct ibv_context *context;
extern struct ibv_pd *pd, *other_pd;
extern struct end a, b; /* the program, and its peer */

/* Ends the program with a message unless ok. */
void check(int ok, const char *what);

/* Opens the device of that name, or the first one; exits with 77 if there is none. */
void open_device(const char *name, int gid_index);
void close_device(void);

/* One end; attr: what is not as usual, or NULL. */
void make_end(struct end *end, unsigned access, struct ibv_qp_init_attr_ex *attr);
void free_end(struct end *end);

/* The steps to a connection; what ibv_modify_qp returns. */
int to_init(struct ibv_qp *qp, int access);
int to_rtr(struct ibv_qp *qp, uint32_t peer);
int to_rts(struct ibv_qp *qp, int rnr_retry);

/* Two connected ends; what the peer's memory and the peer's queue pair allow. */
void open_pair(unsigned memory_access, int qp_access);
void connect_pair(int qp_access, int rnr_retry);
void close_pair(void);

/* Posts on end a; what ibv_post_... returns. */
int post(enum ibv_wr_opcode opcode, uint32_t length, uint32_t lkey, uint64_t address,
         uint32_t rkey);
int post_receive(struct end *end, uint32_t length, uint32_t lkey);

/* The next completion in time; its status, or -1. wc may be NULL. */
int next_completion(struct ibv_cq *cq, int milliseconds, struct ibv_wc *wc);

#endif
