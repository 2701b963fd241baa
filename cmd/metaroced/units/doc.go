// Package units holds the quantities people type on metaroced's command line and
// in its configuration: probabilities (1%), rates (2.5Gb/s), sizes (1MiB) and
// moments at which something happens to a plane (2@2s).
//
// Each type is a flag value (Set, String, Type) and has a Parse function for
// configuration files. String gives a text that Parse reads back to the same
// value. Parse errors say what was read and what would have been accepted; the
// caller adds which flag or key it was.
package units
