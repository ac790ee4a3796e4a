package operate

// NewReport makes a report.
var NewReport = newReport
