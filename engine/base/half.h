/* Scalar conversions of the 16-bit float formats, exact in both directions (round to nearest
 * even; a float past f16's range becomes infinity, which callers must treat as an error). */
#ifndef ENGINE_BASE_HALF_H
#define ENGINE_BASE_HALF_H

#include <stdint.h>

float half_from_f16(uint16_t bits);
uint16_t half_to_f16(float value);
float half_from_bf16(uint16_t bits);
uint16_t half_to_bf16(float value);

#endif
