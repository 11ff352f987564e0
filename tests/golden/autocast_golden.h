/* autocast_golden.h - made by make_autocast.py with PyTorch 2.15.0; do not edit. */
#ifndef AUTOCAST_GOLDEN_H
#define AUTOCAST_GOLDEN_H

typedef struct autocast_error {
    const char *name;
    double error; /* |autocast - exact| / |exact| of the gradient */
} autocast_error;

static const double autocast_mlp_loss = 5.638599e-05; /* |autocast - exact| */
static const autocast_error autocast_mlp[] = {
    {"fc1.weight", 3.740999e-03},
    {"fc1.bias", 5.522874e-03},
    {"fc2.weight", 4.204394e-03},
    {"fc2.bias", 4.629415e-03},
    {"out.weight", 5.415135e-03},
    {"out.bias", 2.763160e-03},
    {0}};

static const double autocast_resnet9_loss = 8.023739e-03; /* |autocast - exact| */
static const autocast_error autocast_resnet9[] = {
    {"prep.conv.weight", 3.243629e-01},
    {"prep.bn.weight", 4.489047e-01},
    {"prep.bn.bias", 3.966177e-01},
    {"layer1.conv.weight", 3.609131e-01},
    {"layer1.bn.weight", 2.243982e-01},
    {"layer1.bn.bias", 2.014821e-01},
    {"res1.0.conv.weight", 3.340529e-01},
    {"res1.0.bn.weight", 2.773566e-01},
    {"res1.0.bn.bias", 2.860854e-01},
    {"res1.1.conv.weight", 3.157879e-01},
    {"res1.1.bn.weight", 3.042539e-01},
    {"res1.1.bn.bias", 3.079417e-01},
    {"layer2.conv.weight", 3.056932e-01},
    {"layer2.bn.weight", 2.505239e-01},
    {"layer2.bn.bias", 1.979735e-01},
    {"layer3.conv.weight", 2.813138e-01},
    {"layer3.bn.weight", 1.201125e-01},
    {"layer3.bn.bias", 1.454959e-01},
    {"res3.0.conv.weight", 2.701312e-01},
    {"res3.0.bn.weight", 1.916395e-01},
    {"res3.0.bn.bias", 2.473251e-01},
    {"res3.1.conv.weight", 2.385751e-01},
    {"res3.1.bn.weight", 6.190441e-02},
    {"res3.1.bn.bias", 1.942351e-02},
    {"fc.weight", 8.086517e-03},
    {"fc.bias", 4.642578e-03},
    {0}};

#endif
