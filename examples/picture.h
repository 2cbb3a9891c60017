/* A picture of a square field of values, as PNG (ISO 15948), without a library: its pixels are not compressed. Colours
 * go from dark blue (lowest) by red to bright yellow (highest); a thin line is drawn at every tenth of the range. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long png_crc(unsigned long crc, const unsigned char* bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320ul ^ crc >> 1 : crc >> 1;
  }
  return crc;
}

static void png_number(unsigned char* to, unsigned long value) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void png_chunk(FILE* out, const char* type, const unsigned char* data, size_t length) {
  unsigned char number[4];
  png_number(number, (unsigned long)length);
  fwrite(number, 1, 4, out);
  fwrite(type, 1, 4, out);
  fwrite(data, 1, length, out);
  unsigned long crc = png_crc(0xfffffffful, (const unsigned char*)type, 4);
  png_number(number, png_crc(crc, data, length) ^ 0xfffffffful);
  fwrite(number, 1, 4, out);
}

/* Entry 0 is the lines' colour, 1 to 255 the values'. */
static void picture_colours(unsigned char palette[256 * 3]) {
  static const unsigned char stops[][3] = {{8, 10, 60},   {60, 15, 110},  {135, 30, 110}, {200, 50, 75},
                                           {240, 95, 35}, {252, 165, 15}, {250, 240, 120}};
  const int last = (int)(sizeof stops / sizeof stops[0]) - 1;
  memset(palette, 235, 3);
  for (int i = 1; i < 256; i++) {
    const double at = (i - 1) / 254.0 * last;
    const int stop = at >= last ? last - 1 : (int)at;
    for (int c = 0; c < 3; c++)
      palette[3 * i + c] = (unsigned char)(stops[stop][c] + (at - stop) * (stops[stop + 1][c] - stops[stop][c]));
  }
}

/* `values`: n x n, between 0 and `most`. Each becomes a square of pixels, so that the picture has about 512. 0:
 * written. */
static int write_picture(const char* file, const double* values, int n, double most) {
  const int scale = n < 512 ? 512 / n : 1, side = n * scale;
  const size_t row = (size_t)side + 1; /* a byte before each row says that it is not filtered */
  const size_t blocks = (row * (size_t)side + 65534) / 65535;
  unsigned char *data = malloc(row * (size_t)side + 5 * blocks + 6), *to = data;
  FILE* out = fopen(file, "wb");
  if (!data || !out) {
    free(data);
    if (out) fclose(out);
    return -1;
  }
  *to++ = 0x78, *to++ = 0x01; /* zlib, RFC 1950 */
  unsigned long a = 1, b = 0; /* its check sum */
  size_t left = row * (size_t)side, in_block = 0;
  for (int y = 0; y < side; y++) {
    for (int x = -1; x < side; x++) {
      if (in_block == 0) { /* a block that is stored as it is, RFC 1951 */
        in_block = left < 65535 ? left : 65535;
        *to++ = left == in_block;
        *to++ = (unsigned char)in_block, *to++ = (unsigned char)(in_block >> 8);
        *to++ = (unsigned char)~in_block, *to++ = (unsigned char)(~in_block >> 8);
      }
      unsigned char pixel = 0;
      if (x >= 0) {
        const int i = y / scale, j = x / scale;
        const double value = values[(size_t)i * n + j] / most;
        const int below = (int)(10 * values[(size_t)(i + 1 < n ? i + 1 : i) * n + j] / most);
        const int beside = (int)(10 * values[(size_t)i * n + (j + 1 < n ? j + 1 : j)] / most);
        const int line = (int)(10 * value) != below || (int)(10 * value) != beside;
        pixel = line ? 0 : (unsigned char)(1 + 254 * (value < 0 ? 0 : value > 1 ? 1 : value));
      }
      *to++ = pixel;
      a = (a + pixel) % 65521, b = (b + a) % 65521;
      in_block--, left--;
    }
  }
  png_number(to, b << 16 | a);
  to += 4;
  unsigned char head[13] = {0}, palette[256 * 3];
  png_number(head, (unsigned long)side);
  png_number(head + 4, (unsigned long)side);
  head[8] = 8, head[9] = 3; /* 8 bits, by palette */
  picture_colours(palette);
  fwrite("\x89PNG\r\n\x1a\n", 1, 8, out);
  png_chunk(out, "IHDR", head, sizeof head);
  png_chunk(out, "PLTE", palette, sizeof palette);
  png_chunk(out, "IDAT", data, (size_t)(to - data));
  png_chunk(out, "IEND", head, 0);
  free(data);
  return fclose(out);
}

#endif
