// Package archtest holds tests of the source tree itself: who may import whom,
// which packages stay pure, and how long files get. It has no code of its own.
package archtest
