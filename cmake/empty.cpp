// What precompiled headers are attached to (LowgearPrecompiled.cmake).
