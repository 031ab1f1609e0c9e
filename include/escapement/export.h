// Marks what libescapement.so exports.
#pragma once

#define ESCAPEMENT_API __attribute__((visibility("default")))
