// Parts shared with the report (src/report/report/page): scripts that index.html loads before the modules.
/* global units, palette, element, readout, interaction, frontierPlot, timelinePlot, timelineData, timelineLegend,
   dataTable, theme */
const shared = {units, palette, element, readout, interaction, frontierPlot, timelinePlot, timelineData, timelineLegend,
  dataTable, theme};

export default shared;
