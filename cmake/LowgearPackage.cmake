# Installed files besides the programs, and the division into Debian packages: docs/deploying.md says what is where and
# why. A component of install() is a package. `./dev package` builds them by the preset of that name.
#
# What only a package may put in place is EXCLUDE_FROM_ALL. The units name /etc and /var as they are, whatever the prefix:
# so does the program.
include(GNUInstallDirs)

# Whatever the umask is: the program refuses a configuration in a folder that a group may write to.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)

set(lowgear_deploy ${PROJECT_SOURCE_DIR}/deploy)
set(lowgear_packaging ${PROJECT_BINARY_DIR}/packaging)
set(lowgear_data ${CMAKE_INSTALL_DATADIR}/lowgear)

# --- files ------------------------------------------------------------------------------------------------------------

# Units name the program where it is installed; deploy/ has them as they are below /usr.
foreach(service lowgear-agent lowgear-server)
  set(unit ${lowgear_deploy}/systemd/${service}.service)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unit})
  file(READ ${unit} text)
  string(REPLACE "=/usr/bin/" "=${CMAKE_INSTALL_FULL_BINDIR}/" text "${text}")
  file(WRITE ${lowgear_packaging}/${service}.service "${text}")
  install(FILES ${lowgear_packaging}/${service}.service DESTINATION lib/systemd/system COMPONENT lowgear)
endforeach()
install(FILES ${lowgear_deploy}/systemd/lowgear-server.sysusers DESTINATION lib/sysusers.d RENAME lowgear-server.conf
        COMPONENT lowgear)
# For administrators to copy; in effect it would give every agent the rights that only one with MPS daemons needs.
install(FILES ${lowgear_deploy}/systemd/lowgear-agent-mps.conf DESTINATION ${lowgear_data}/systemd COMPONENT lowgear)
# To be copied to /etc/lowgear, where no package puts a file: without one neither unit starts, and `lowgear agent init`
# writes the agent's.
install(FILES ${lowgear_deploy}/agent.yaml ${lowgear_deploy}/server.yaml DESTINATION ${lowgear_data} COMPONENT lowgear)
# Dashboards and the operator's rules are made of the other files.
install(DIRECTORY ${lowgear_deploy}/monitoring DESTINATION ${lowgear_data} COMPONENT lowgear
        PATTERN dashboards EXCLUDE PATTERN rules.yaml EXCLUDE PATTERN *.py EXCLUDE PATTERN .gitignore EXCLUDE PATTERN __pycache__ EXCLUDE)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  foreach(source panels.py render.py lowgear.rules.yml lowgear.alerts.yml)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lowgear_deploy}/monitoring/${source})
  endforeach()
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${lowgear_deploy}/monitoring/render.py ${lowgear_packaging}/monitoring
                  COMMAND_ERROR_IS_FATAL ANY)
  install(DIRECTORY ${lowgear_packaging}/monitoring DESTINATION ${lowgear_data} COMPONENT lowgear)
else()
  message(WARNING "There is no Python 3: Grafana's dashboards and the rules for the Prometheus operator are not installed")
endif()
# Manifests, to be copied: tokens.sh writes tokens into the folder that it is in. For Slurm: prolog, epilog and the source
# of the SPANK plugin, which is compiled against the headers of the cluster's Slurm.
foreach(folder kubernetes slurm)
  install(DIRECTORY ${lowgear_deploy}/${folder} DESTINATION ${lowgear_data} COMPONENT lowgear USE_SOURCE_PERMISSIONS
          PATTERN *.token EXCLUDE PATTERN *.tokens EXCLUDE PATTERN .gitignore EXCLUDE PATTERN __pycache__ EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data DESTINATION ${lowgear_data} COMPONENT lowgear)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT lowgear
        FILES_MATCHING PATTERN *.md PATTERN *.png)
install(FILES ${PROJECT_SOURCE_DIR}/bench/ACCURACY.md ${PROJECT_SOURCE_DIR}/bench/RESULTS.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench COMPONENT lowgear)
install(FILES ${PROJECT_SOURCE_DIR}/bench/accuracy/iterations.svg DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench/accuracy
        COMPONENT lowgear)
install(CODE "set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
include(\"${CMAKE_CURRENT_LIST_DIR}/installed_links.cmake\")" COMPONENT lowgear)
install(FILES ${PROJECT_SOURCE_DIR}/examples/training/llama-4-stages.yaml DESTINATION ${lowgear_data}/examples
        COMPONENT trainer)
# Where Debian's interpreter looks; elsewhere, pip installs python/.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/lowgear DESTINATION lib/python3/dist-packages COMPONENT python
        EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)

# --- packages ---------------------------------------------------------------------------------------------------------

# lowgear_package(COMPONENT PACKAGE SECTION section DESCRIPTION text [FIELD value]...)
# FIELD: what CPack calls CPACK_DEBIAN_<COMPONENT>_PACKAGE_FIELD (DEPENDS, RECOMMENDS, CONTROL_EXTRA...). The first line
# of the description is what lists of packages show; it has no semicolons, which are CMake's.
macro(lowgear_package component package)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} key)
  cmake_parse_arguments(ARG "" "DESCRIPTION" "SECTION;ARCHITECTURE;DEPENDS;RECOMMENDS;SUGGESTS;CONTROL_EXTRA" ${ARGN})
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${ARG_DESCRIPTION}")
  foreach(field SECTION ARCHITECTURE CONTROL_EXTRA)
    if(ARG_${field})
      set(CPACK_DEBIAN_${key}_PACKAGE_${field} "${ARG_${field}}")
    endif()
  endforeach()
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN ARG_${field} ", " packages)
    set(CPACK_DEBIAN_${key}_PACKAGE_${field} "${packages}")
  endforeach()
  install(FILES ${lowgear_deploy}/debian/copyright ${lowgear_packaging}/changelog.gz
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_VENDOR Lowgear)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The builder of the packages is their maintainer, set as for Debian's own tools.
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Lowgear contributors <nobody@lowgear.invalid>")
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
string(TIMESTAMP lowgear_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${lowgear_deploy}/debian/changelog.in ${lowgear_packaging}/changelog @ONLY)
execute_process(COMMAND gzip -9nf ${lowgear_packaging}/changelog COMMAND_ERROR_IS_FATAL ANY)

set(same_version "(= ${PROJECT_VERSION})")
# For packages that an upgrade of only `lowgear` must not remove: they detect incompatible versions themselves.
set(this_version_or_newer "(>= ${PROJECT_VERSION})")
set(debian ${lowgear_deploy}/debian)

lowgear_package(lowgear lowgear SECTION science
  RECOMMENDS libxgboost0
  SUGGESTS lowgear-trainer lowgear-simgpu libnvidia-ml1 prometheus python3
  CONTROL_EXTRA ${debian}/lowgear/postinst ${debian}/lowgear/prerm ${debian}/lowgear/postrm
  DESCRIPTION "less energy for large-model training, without finishing later
Plans the GPU clock of every computation of a training job, estimates jobs
before they have a GPU, and measures energy. Holds the agent, which sets clocks
and restores GPUs, and the server, which keeps jobs on their plans. Neither is
started before an administrator enables it.")
lowgear_package(trainer lowgear-trainer SECTION science
  DEPENDS "lowgear ${this_version_or_newer}"
  RECOMMENDS libopenblas0-openmp
  DESCRIPTION "programs of the ranks that Lowgear trains and samples with
What lowgear train and lowgear sample run on every rank, on Debian's libtorch:
CPUs and simulated GPUs. For real GPUs they are built with a PyTorch that has
CUDA.")
lowgear_package(simgpu lowgear-simgpu SECTION science
  DEPENDS "lowgear ${this_version_or_newer}"
  DESCRIPTION "simulated GPUs for programs that use NVML
A look-alike of NVML's library, for trying agent, server and training without
a GPU. It is in a folder of its own, where no program finds it that has not
been configured to look there.")
# The interface is that of lowgear.h: a program that is built against one version runs with this one or a newer.
file(WRITE ${lowgear_packaging}/shlibs "liblowgear 1 liblowgear1 (>= ${PROJECT_VERSION})\n")
file(WRITE ${lowgear_packaging}/triggers "activate-noawait ldconfig\n")
lowgear_package(library liblowgear1 SECTION libs
  SUGGESTS lowgear libnvidia-ml1
  CONTROL_EXTRA ${lowgear_packaging}/shlibs ${lowgear_packaging}/triggers
  DESCRIPTION "clocks that follow a plan, for training processes
The library that a training process marks its units with: its GPU's clocks
follow a plan through Lowgear's agent, time and energy are recorded. Needs
nothing but the C library.")
lowgear_package(development liblowgear-dev SECTION libdevel
  DEPENDS "liblowgear1 ${same_version}"
  DESCRIPTION "clocks that follow a plan, for training processes (header)
What a C or C++ program is built with that uses liblowgear.")
lowgear_package(python python3-lowgear SECTION python
  ARCHITECTURE all
  DEPENDS "python3:any (>= 3.8)" "liblowgear1 (>= ${PROJECT_VERSION})"
  SUGGESTS "lowgear ${same_version}"
  CONTROL_EXTRA ${debian}/python3-lowgear/postinst ${debian}/python3-lowgear/prerm
  DESCRIPTION "clocks that follow a plan, for training processes (Python)
A Python package for training loops on top of liblowgear, without any other
dependency.")

include(CPack)
