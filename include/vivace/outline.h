/* outline.h - a model layer by layer: what comes out, how many parameters, how much arithmetic. */
#ifndef VIVACE_OUTLINE_H
#define VIVACE_OUTLINE_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef struct vv_outline_row {
    const char *path, *type; /* "layer1.0.conv1", "Conv2d"; the net itself has path "" */
    int level;               /* 0 = the net */
    int ndim;                /* of its output for one sample; -1 = it was not called */
    int64_t shape[VV_MAX_DIMS]; /* without the batch */
    int64_t params;          /* elements, of the layer and those below, each shared one once */
    int64_t multiply_adds;   /* forward, one sample; the layer and those below */
} vv_outline_row;
typedef struct vv_outline {
    vv_outline_row *rows; /* depth first, the net first */
    int count;
    char *text;           /* what paths point into */
} vv_outline;

/* Runs nothing: the forward of one sample is built, not evaluated. Multiply-adds are those of
   convolutions (taps on padding too), matrix products and attention. The net is left in evaluation
   mode. */
VV_API VV_MUST_USE vv_status vv_outline_make(vv_outline *out, vv_model *model,
                                             const vv_sample_spec *input);
VV_API void vv_outline_fini(vv_outline *outline);

/* "image=224x192,channels=3,classes=1000" or "tokens=1024,classes=50257" as what data would say of
   themselves; what is not there stays as it is in *spec. Class targets. */
VV_API VV_MUST_USE vv_status vv_sample_spec_parse(vv_sample_spec *spec, const char *text);
/* Builds a model as for data of `spec`: targets are classes, a mask or boxes, whichever the model
   takes; *spec tells. */
VV_API VV_MUST_USE vv_status vv_outline_build(VV_OWNED vv_model **out, const vv_model_desc *desc,
                                              const void *opts, vv_sample_spec *spec);

VV_END_DECLS

#endif
