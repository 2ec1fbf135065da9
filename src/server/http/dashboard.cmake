# The dashboard's own files as a source of this module: dashboard_sources.
set(folder ${PROJECT_SOURCE_DIR}/dashboard)
file(GLOB dashboard_files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
set(dashboard_sources http/dashboard_files.cpp ${CMAKE_CURRENT_BINARY_DIR}/dashboard_sources.cpp)
lowgear_embed(${CMAKE_CURRENT_BINARY_DIR}/dashboard_sources.cpp server/http/dashboard_files.h
              lowgear::server::dashboard_source
  FILES ${dashboard_files})
