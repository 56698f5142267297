/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/debug/debug.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/output.h"
#include "core/base/path.h"
#include "core/hook/hook_part.h"
#include "core/part/part.h"

/* ---- The layer ---- */

static void layer_destroy(struct debug_layer *layer)
{
    pthread_mutex_destroy(&layer->mutex);
    debug_reporter_release(layer->reporter);
    free(layer);
}

/* One of a list of words. */
static bool demands(const struct params *params, const char *word)
{
    const char *text = params_string(params, "demand");
    size_t len = strlen(word);

    for (; text && *text; text += *text != 0) {
        size_t span = strcspn(text, "|,");

        if (span == len && !strncmp(text, word, len))
            return true;
        text += span;
    }
    return false;
}

static int check_demand(const char *text, char *why, size_t why_size)
{
    static const char *const known[] = {"context", "context2", "mr_local", NULL};

    for (; *text; text += *text != 0) {
        size_t span = strcspn(text, "|,"), i = 0;
        char word[64];

        while (known[i] && (strlen(known[i]) != span || strncmp(known[i], text, span) != 0))
            i++;
        if (!known[i]) {
            snprintf(word, sizeof(word), "%.*s", (int)(span < 63 ? span : 63), text);
            suggest_explain("mode", word, known, why, why_size);
            return -FI_EINVAL;
        }
        text += span;
    }
    return 0;
}

static uint64_t demanded_mode(const struct params *params)
{
    return (demands(params, "context") ? FI_CONTEXT : 0) |
           (demands(params, "context2") ? FI_CONTEXT2 : 0);
}

static void root_destroy(void *own)
{
    struct debug_object *root = own;

    layer_destroy(root->layer);
}

/* The fabric's own is the root of its objects. */
static int root_create(const struct open_args *args, void **own)
{
    const char *path = params_string(args->params, "file");
    struct debug_layer *layer = calloc(1, sizeof(*layer));
    int rc = 0;

    if (!layer)
        return -FI_ENOMEM;
    layer->reporter = debug_reporter_create();
    if (!layer->reporter) {
        free(layer);
        return -FI_ENOMEM;
    }
    pthread_mutex_init(&layer->mutex, NULL);
    list_init(&layer->objects);
    for (int i = 0; i < DEBUG_FLIGHT_SLOTS; i++)
        list_init(&layer->flights[i]);
    layer->reporter->aborts = params_bool(args->params, "abort");
    layer->reporter->limit = (unsigned)params_int(args->params, "limit");
    layer->demand_mr = demands(args->params, "mr_local") ? FI_MR_LOCAL : 0;
    layer->root.layer = layer;
    list_init(&layer->root.users);
    list_init(&layer->root.uses);
    list_init(&layer->root.link);
    if (path)
        rc = output_open("debug", path, &layer->reporter->path);
    if (rc)
        layer_destroy(layer);
    else
        *own = &layer->root;
    return rc;
}

/* ---- The fabric ---- */

static void check_children(struct debug_layer *layer)
{
    char whom[DEBUG_NAME], child[DEBUG_NAME] = "";

    pthread_mutex_lock(&layer->mutex);
    if (!list_empty(&layer->objects))
        debug_name(list_item(layer->objects.next, struct debug_object, link), child);
    pthread_mutex_unlock(&layer->mutex);
    if (child[0])
        debug_report(layer->reporter, DEBUG_CLOSE_ORDER, "fi_close", debug_name(&layer->root, whom),
                     "%s, which needs it, is still open", child);
}

static int close_fabric(struct fid *fid)
{
    struct debug_object *root = *hook_own(fid);
    int rc;

    if (!root)
        return hook_fabric_fid_ops.close(fid);
    check_children(root->layer);
    rc = hook_fabric_fid_ops.close(fid);
    if (rc)
        return rc;
    debug_report_rest(root->layer->reporter);
    layer_destroy(root->layer);
    return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof(fabric_fid_ops), .close = close_fabric};

static void fill_ops(struct hook_ops *ops)
{
    debug_object_ops(ops);
    debug_open_ops(ops);
    debug_set_ops(ops);
    ops->post = debug_post;
    debug_queue_ops(ops);
    debug_address_ops(ops);
    ops->fabric_fid = &fabric_fid_ops;
    ops->retire = debug_retire;
}

static struct hook_part hook = {.fill = fill_ops, .create = root_create, .destroy = root_destroy};

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    int rc = hook_part_open(args, fabric, context);
    struct debug_object *root;

    if (rc)
        return rc;
    root = *hook_own(&(*fabric)->fid);
    root->fid = &(*fabric)->fid;
    return 0;
}

/* Modes that this hook demands, and its lower need not. */
static int offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    int rc = part_offer_same(req, lower, info);

    for (struct fi_info *one = *info; !rc && one; one = one->next) {
        one->mode |= demanded_mode(req->params);
        one->domain_attr->mr_mode |= demands(req->params, "mr_local") ? FI_MR_LOCAL : 0;
    }
    return rc;
}

static const char *const aliases[] = {"hook_debug", NULL};

static const struct param_def params[] = {
    PARAM_CHECKED("file", PARAM_STRING, NULL, path_check,
                  "Where reports go, added at the end: %p is the process, %h the host. Without it: "
                  "standard error."),
    PARAM_SWITCH("abort", "0",
                 "The first report ends the process by abort(3), for a debugger or a core file."),
    PARAM_NUMBER("limit", PARAM_INT, "10", 0, 1000000,
                 "So many reports of one rule at most; how many more there were is said when the "
                 "fabric closes."),
    PARAM_CHECKED("demand", PARAM_LIST, NULL, check_demand,
                  "Modes that are required of the application although the lower does not need "
                  "them: context, context2, mr_local. So a program is checked for lowers that do."),
    {.key = NULL},
};

const struct part debug_part = {
    .name = "debug",
    .prov_name = "ofi_hook_debug",
    .aliases = aliases,
    .summary = "checks the application against the man pages",
    .description =
        "Reports uses of the interface by the application, or the layer above, that the manual "
        "pages do not allow, even where the lower accepts them: operations, flags and sizes "
        "that were never granted; buffers without a region where FI_MR_LOCAL is required, or "
        "outside of it; contexts that are used again before their operation has completed "
        "(FI_CONTEXT); completions that are never read; objects that are closed in the wrong "
        "order or used when they are closed; two threads at once where the threading level "
        "allows one; addresses that are not in the address vector; and more. Each report names "
        "the call, the object, the rule and the manual page.\n\n"
        "It changes nothing: the call goes on to the lower, except with an object that is "
        "closed, which is -FI_EINVAL. It remembers closed objects, in about 600 bytes each: the "
        "last 1024 memory regions of a process and the last 1024 of all other objects. It takes "
        "locks; it is for tests, not for measuring.\n\n"
        "It cannot see remote ranges (the target checks those), the type as which the "
        "application reads a buffer of completions, fi_mr_desc and fi_mr_key of a closed "
        "region, and threads that do not meet.",
    .hook = &hook,
    .kind = PART_LAYER,
    .transparent = true,
    .params = params,
    .needs = part_needs_same,
    .offer = offer,
    .open_fabric = open_fabric,
};
