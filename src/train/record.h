/* record.h - records in a checkpoint file: what checkpoint.c and restore.c need of record.c. */
#ifndef VVI_RECORD_H
#define VVI_RECORD_H

#include <vivace/ext/train.h>
#include <vivace/safetensors.h>

/* Adds everything in the record to the file under "<prefix><key>": tensors as they are, integers,
   doubles and texts exactly (texts of the metadata, or one-element tensors). */
VV_MUST_USE vv_status vvi_record_write(const vv_record *record, vv_safetensors_writer *writer,
                                       const char *prefix);
/* Tensors become copies of what they hold now. */
VV_MUST_USE vv_status vvi_record_detach(vv_record *record);
/* *out = what vvi_record_write put under `prefix`; an empty record if there is nothing. The
   record's tensors are its own (they outlive the file). */
VV_MUST_USE vv_status vvi_record_read(VV_OWNED vv_record **out, const vv_safetensors *file,
                                      const char *prefix);

#endif
