/* soap_basis.h - the rotated bases of soap. Internal to src/optim. */
#ifndef VVI_SOAP_BASIS_H
#define VVI_SOAP_BASIS_H

#include <vivace/optim.h>

enum { VVI_SOAP_PLAIN, VVI_SOAP_MATRIX }; /* roles */
/* States: both moments in the rotated basis, the averages of G G' and G' G, their eigenvectors. */
enum {
    VVI_SOAP_MEAN, VVI_SOAP_SQUARE, VVI_SOAP_LEFT, VVI_SOAP_RIGHT, VVI_SOAP_LEFT_BASIS,
    VVI_SOAP_RIGHT_BASIS, VVI_SOAP_STATES
};

typedef struct vvi_soap_room { /* what one parameter's step has computed, until all have */
    float *direction; /* the step, then the gradient in the rotated basis */
    float *side[2];   /* new averages */
    float *basis[2];  /* new eigenvectors; NULL = as they are */
    float *moments[2]; /* both moments in the new basis */
    size_t capacity;  /* floats of `memory` */
    float *memory;
} vvi_soap_room;

typedef struct vvi_soap_self {
    vv_graph *graph;
    vvi_soap_room *rooms; /* per view */
    int capacity;
    double *work; /* of the decompositions */
    int *order;   /* two sides' eigenvalues by size */
    size_t work_count;
} vvi_soap_self;

vv_status vvi_soap_direct(void *self, const vv_optimizer_view *views, int count);
void vvi_soap_fini(void *self);
/* Sides of the parameter as a matrix; false where it is not rotated on that side. */
bool vvi_soap_side(const vv_optimizer_view *view, int which, int64_t *size);

#endif
