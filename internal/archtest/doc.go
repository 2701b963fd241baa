// Package archtest holds tests of the source tree itself: who may import whom,
// which packages stay pure, how long files get, and that what the documentation
// tells people to type exists. It has no code of its own.
package archtest
