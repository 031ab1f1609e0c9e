// Which headers these are. What is public lies in the inline namespace ESCAPEMENT_ABI: it has another name as soon as a program that was
// compiled with older headers must not run on the library (docs/abi.md), so that such a program is refused when it is linked or started.
#pragma once

#define ESCAPEMENT_VERSION_MAJOR 0
#define ESCAPEMENT_VERSION_MINOR 1
#define ESCAPEMENT_VERSION_PATCH 0
#define ESCAPEMENT_VERSION_NUMBER (ESCAPEMENT_VERSION_MAJOR * 10000 + ESCAPEMENT_VERSION_MINOR * 100 + ESCAPEMENT_VERSION_PATCH)

#define ESCAPEMENT_ABI v0
