// Carries the precompiled torch header (see Dependencies.cmake).
