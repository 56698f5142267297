/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/layer/lower_source.h"

#include "core/base/fid.h"
#include "core/base/log.h"

static void drive(struct progress_source *source)
{
    lower_cq_progress(object_of(source, struct lower_source, source)->cq);
}

/* The same of a queue of ours, with a few frames less on the way to a completion. */
static void drive_ours(struct progress_source *source)
{
    struct progress *driven = object_of(source, struct lower_source, source)->driven;

    if (!progress_forked(driven))
        progress_poll_lower(driven);
}

static int trywait(struct progress_source *source)
{
    struct lower_source *mine = object_of(source, struct lower_source, source);

    return lower_cq_trywait(mine->lower, mine->cq);
}

int lower_source_open(struct lower_source *source, const struct lower *lower,
                      struct fid_domain *domain, size_t size, struct fid_peer_cq *sink,
                      struct progress *progress)
{
    struct fi_cq_attr attr = {.size = size};
    int rc;

    if (source->cq)
        return 0;
    source->lower = lower;
    if (!source->source.trywait)
        source->source.trywait = trywait;
    list_init(&source->source.link);
    list_init(&source->folded);
    list_init(&source->fold);
    progress_lock(progress);
    rc = lower_cq_open(lower, domain, &attr, true, sink, &source->cq);
    if (!rc) {
        lower_cq_watch(source->cq, &source->source);
        source->driven = lower_cq_driven(source->cq);
        if (!source->source.poll || source->source.poll == drive ||
            source->source.poll == drive_ours)
            source->source.poll = source->driven ? drive_ours : drive;
        rc = progress_attach(progress, &source->source);
    }
    if (rc && source->cq) {
        lower_cq_close(source->cq);
        source->cq = NULL;
    }
    progress_unlock(progress);
    return rc;
}

void lower_source_fold(struct lower_source *keep, struct lower_source *fold,
                       struct progress *progress)
{
    if (keep == fold || list_empty(&keep->source.link) || list_empty(&fold->source.link) ||
        !keep->driven || !fold->driven ||
        progress_root(keep->driven) != progress_root(fold->driven))
        return;
    progress_detach(progress, &fold->source);
    list_attach(&fold->fold, &keep->folded);
}

static void attach_again(struct lower_source *source, struct progress *progress)
{
    if (progress_attach(progress, &source->source))
        LOG_WARN(source->part, FI_LOG_CQ, "a completion queue of the lower is not driven any more");
}

/* Each drives by itself again. */
static void unfold(struct lower_source *source, struct progress *progress)
{
    list_detach(&source->fold);
    list_for_each_safe (pos, after, &source->folded) {
        list_detach(pos);
        attach_again(list_item(pos, struct lower_source, fold), progress);
    }
}

int lower_source_close(struct lower_source *source, struct progress *progress)
{
    int rc;

    if (!source->cq)
        return 0;
    progress_lock(progress);
    progress_detach(progress, &source->source);
    rc = lower_cq_close(source->cq);
    if (!rc) {
        source->cq = NULL;
        unfold(source, progress);
    } else if (list_empty(&source->fold)) {
        attach_again(source, progress);
    }
    progress_unlock(progress);
    return rc;
}
