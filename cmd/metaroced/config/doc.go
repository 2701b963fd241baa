// Package config reads the daemon's configuration file.
//
// The file is TOML; every key has a default, except that at least one [[plane]]
// with its interface is needed. Load refuses what it does not know and what is
// out of range, with the file, the line, the key, the value and what would be
// accepted, so that nothing in a configuration is silently without effect. All
// faults of a file are reported together.
//
// metaroced run calls Load and hands the parts of Config to the packages they
// configure; the lab writes such files for its two daemons.
package config
