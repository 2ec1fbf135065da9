// What the precompiled headers of programs are attached to (LowgearPrecompiled.cmake).
int main() {}
