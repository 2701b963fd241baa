package lab

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// patternSizes has sizes below, at and around stamps and blocks.
var patternSizes = []int{1, 7, 8, 9, 64, 1000, 1023, 1024, 1025, 1032, 4096, 10000, 1 << 16, 1<<20 + 3}

func TestPatternVerifiesWhatItFilled(t *testing.T) {
	p := NewPattern(42)
	for _, size := range patternSizes {
		for _, operation := range []uint64{0, 1, 127, 128, 1 << 20, 1<<28 + 5, 1 << 40} {
			got := make([]byte, size)
			p.Fill(got, operation)
			if i := bytes.IndexByte(got, 0); i >= 0 {
				t.Fatalf("size %d operation %d: byte %d is zero, like the poison", size, operation, i)
			}
			if wrong, first := p.VerifyAndPoison(got, operation); wrong != 0 || first != -1 {
				t.Fatalf("size %d operation %d: %d wrong bytes from %d", size, operation, wrong, first)
			}
			if !bytes.Equal(got, make([]byte, size)) {
				t.Fatalf("size %d: not poisoned", size)
			}
		}
	}
}

func TestEverySingleWrongByteIsFound(t *testing.T) {
	p := NewPattern(1)
	const size = 2*blockBytes + 5
	for i := range size {
		got := make([]byte, size)
		p.Fill(got, 9)
		got[i] ^= byte(1 + i%255)
		if wrong, first := p.VerifyAndPoison(got, 9); wrong != 1 || first != int64(i) {
			t.Fatalf("wrong byte %d: found %d from %d", i, wrong, first)
		}
	}
}

func TestCountOfWrongBytesIsExact(t *testing.T) {
	p := NewPattern(2)
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		got := make([]byte, patternSizes[r.IntN(len(patternSizes))])
		operation := r.Uint64()
		p.Fill(got, operation)
		want, first := int64(0), int64(-1)
		for range r.IntN(20) {
			i := r.IntN(len(got))
			original := make([]byte, len(got))
			p.Fill(original, operation)
			if got[i] == original[i] {
				got[i] ^= 0x55
				want++
				if first < 0 || int64(i) < first {
					first = int64(i)
				}
			}
		}
		if wrong, at := p.VerifyAndPoison(got, operation); wrong != want || at != first {
			t.Fatalf("found %d wrong bytes from %d, want %d from %d", wrong, at, want, first)
		}
	}
}

// damage is a way in which a transport may put bytes at a wrong place or time.
// Each must show as many wrong bytes: nearly all of those moved, since two random
// bytes agree once in 255.
func TestMisplacedBytesAreFound(t *testing.T) {
	const size = 64 << 10
	p := NewPattern(7)
	r := rand.New(rand.NewPCG(5, 6))
	content := func(operation uint64) []byte {
		b := make([]byte, size)
		p.Fill(b, operation)
		return b
	}
	for name, c := range map[string]struct {
		damage func(got []byte, operation uint64) (moved int)
	}{
		"short copy": {func(got []byte, _ uint64) int {
			n := 1 + r.IntN(3400)
			clear(got[size-n:])
			return n
		}},
		"stale operation": {func(got []byte, operation uint64) int {
			n, at := 16+r.IntN(3400), r.IntN(size-3416)
			copy(got[at:at+n], content(operation - 1 - r.Uint64N(1000))[at:])
			return n
		}},
		"other place of the same operation": {func(got []byte, operation uint64) int {
			n, to := 16+r.IntN(3400), r.IntN(size-3416)
			from := (to + 1 + r.IntN(size-3416-1)) % (size - 3416)
			copy(got[to:to+n], content(operation)[from:])
			return n
		}},
		"swapped blocks": {func(got []byte, _ uint64) int {
			a := r.IntN(size/blockBytes - 1)
			b := a + 1 + r.IntN(size/blockBytes-1-a)
			first, second := got[a*blockBytes:(a+1)*blockBytes], got[b*blockBytes:(b+1)*blockBytes]
			saved := bytes.Clone(first)
			copy(first, second)
			copy(second, saved)
			return 2 * blockBytes
		}},
		"other seed": {func(got []byte, operation uint64) int {
			NewPattern(8).Fill(got, operation)
			return size - size/blockBytes*stampBytes
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				operation := 5000 + r.Uint64N(1<<20)
				got := content(operation)
				moved := c.damage(got, operation)
				wrong, first := p.VerifyAndPoison(got, operation)
				// A stamp may agree in part with the one it replaces.
				if least := int64(moved) * 85 / 100; wrong < least-stampBytes || first < 0 {
					t.Fatalf("%d bytes moved, %d found wrong (first %d)", moved, wrong, first)
				}
			}
		})
	}
}

func TestStampHasNoZeroByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		s := stamp(r.Uint64(), r.Uint64())
		for i := range stampBytes {
			if byte(s>>(8*i)) == 0 {
				t.Fatalf("stamp %#x has a zero byte", s)
			}
		}
	}
	if stamp(1, 2) == stamp(2, 1) || stamp(0, 1<<27) == stamp(0, 0) {
		t.Error("stamps of different blocks agree")
	}
}

func BenchmarkPatternFill(b *testing.B) {
	p, dst := NewPattern(1), make([]byte, 1<<20)
	b.SetBytes(int64(len(dst)))
	for i := 0; b.Loop(); i++ {
		p.Fill(dst, uint64(i))
	}
}

// The figure is for both together: an operation is filled once and verified once.
func BenchmarkPatternFillVerifyAndPoison(b *testing.B) {
	p, content := NewPattern(1), make([]byte, 1<<20)
	b.SetBytes(int64(len(content)))
	for i := 0; b.Loop(); i++ {
		p.Fill(content, uint64(i))
		p.VerifyAndPoison(content, uint64(i))
	}
}
