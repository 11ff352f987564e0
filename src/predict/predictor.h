/* predictor.h - a predictor's parts. */
#ifndef VVI_PREDICTOR_H
#define VVI_PREDICTOR_H

#include <vivace/predict.h>

struct vv_predictor {
    vv_recipe *recipe;
    vv_run *run;
    vv_trainer *trainer; /* the run's */
    vv_saved_input input;
    float table[4][256]; /* a pixel's value as the model takes it, per channel */
};

#endif
