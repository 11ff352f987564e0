/* prices.h - what hardware costs: a small table that users edit (prices.yaml). */
#ifndef VIVACE_PRICES_H
#define VIVACE_PRICES_H

#include <vivace/status.h>

VV_BEGIN_DECLS

typedef struct vv_price {
    char *name; /* texts are never NULL; "" = not noted */
    char *accelerator, *region, *kind, *date, *source;
    double usd_per_hour;         /* of the whole machine */
    int64_t cores, accelerators; /* 0 = not noted, none */
} vv_price;
typedef struct vv_price_list {
    vv_price *items;
    int count;
    char *origin; /* the file, or "the built-in price table" */
} vv_price_list;

/* Reads a table; path NULL = the one in use: $VIVACE_PRICES, else ./prices.yaml, else the one that
   is built in. Released with vv_prices_fini, after a failure too. */
VV_API VV_MUST_USE vv_status vv_prices_read(vv_price_list *out, const char *path);
VV_API void vv_prices_fini(vv_price_list *list);
/* *out = the entry of that name; VV_ENOTFOUND with the nearest one if there is none. */
VV_API VV_MUST_USE vv_status vv_price_find(VV_BORROWED const vv_price **out,
                                           const vv_price_list *list, const char *name);

VV_END_DECLS

#endif
