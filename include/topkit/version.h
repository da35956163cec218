/* topkit/version.h: the library's version, for C and C++ alike.
 *
 * TOPKIT_VERSION is MAJOR * 10000 + MINOR * 100 + PATCH. Two copies of the library in one translation unit must agree: their
 * storage structs would differ silently otherwise. meson.build checks that these numbers equal project(version:).
 *
 * Licence: Apache-2.0, see LICENSE.
 */
#if defined(TOPKIT_VERSION) && TOPKIT_VERSION != 100
#error "two versions of topkit in one translation unit"
#endif
#ifndef TOPKIT_VERSION_H
#define TOPKIT_VERSION_H

#define TOPKIT_VERSION_MAJOR 0
#define TOPKIT_VERSION_MINOR 1
#define TOPKIT_VERSION_PATCH 0
#define TOPKIT_VERSION 100

#endif
