/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue on the lower (core/layer/lower.h) that a progress domain drives: it is polled
 * with the domain's other sources, and its wait fd, if it has one, wakes the domain's waiters.
 */
#ifndef WEFT_CORE_LAYER_LOWER_SOURCE_H
#define WEFT_CORE_LAYER_LOWER_SOURCE_H

#include "core/layer/lower.h"
#include "core/progress/progress.h"

struct lower_source {
    struct progress_source source;
    const struct lower *lower;
    const char *part;        /* for the log; set before it is opened */
    struct lower_cq *cq;     /* NULL: not open */
    struct progress *driven; /* lower_cq_driven of it */
    struct list folded;      /* sources that leave driving to it */
    struct list fold;        /* in the list of the one that it leaves driving to */
};

/*
 * Opens a queue of `size` entries (0: the lower's choice) on domain, of lower, that writes into
 * sink, and attaches it to progress, unless it is open. A layer may have set source.poll and
 * source.trywait: they call lower_cq_progress and lower_cq_trywait themselves. sink and lower
 * outlive it. Progress domain unlocked. The lower's error, or -FI_ENOMEM; then it is not open.
 */
int lower_source_open(struct lower_source *source, const struct lower *lower,
                      struct fid_domain *domain, size_t size, struct fid_peer_cq *sink,
                      struct progress *progress);
/*
 * Leaves driving, and waking waiters, of `fold` to `keep` until that is closed, if both are
 * attached to the progress domain and drive one progress domain of the lower's: an endpoint of the
 * lower has merged those of its queues, and a look at one is a look at both. Progress domain
 * locked.
 */
void lower_source_fold(struct lower_source *keep, struct lower_source *fold,
                       struct progress *progress);
/* Takes one that is not open. The lower's error (-FI_EBUSY): it is open, and driven, as before.
 * Progress domain unlocked. */
int lower_source_close(struct lower_source *source, struct progress *progress);

#endif
