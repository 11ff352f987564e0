/* linalg.h - small dense linear algebra in double, for set-up work outside the training step. */
#ifndef VIVACE_LINALG_H
#define VIVACE_LINALG_H

#include <vivace/status.h>

VV_BEGIN_DECLS

/* Eigenvalues, falling, and orthonormal eigenvectors of a symmetric matrix a [n,n] (overwritten):
   row i of vectors [n,n] belongs to values[i]. Cyclic Jacobi rotations: exact to rounding, meant
   for n up to some hundreds. VV_ENUMERIC if a holds NaN or infinity. */
VV_API VV_MUST_USE vv_status vv_symmetric_eigen(double *a, int64_t n, double *values,
                                                double *vectors);

/* The best approximation of a [rows,cols] by a product of rank at most `rank` (Eckart and Young
   1936), square roots of the singular values on both sides: a ~ left [rows,rank] * right
   [rank,cols]. */
VV_API VV_MUST_USE vv_status vv_low_rank(const float *a, int64_t rows, int64_t cols, int64_t rank,
                                         float *left, float *right);

VV_END_DECLS

#endif
