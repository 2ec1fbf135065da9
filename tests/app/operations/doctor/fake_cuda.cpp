// The driver's library with green contexts; nothing is called.
extern "C" int cuGreenCtxCreate() { return 999; }
