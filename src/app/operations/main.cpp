#include "app/operations/program.h"

int main(int argc, char** argv) { return lowgear::operations::run_program(argc, argv); }
