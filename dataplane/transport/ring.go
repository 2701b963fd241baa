package transport

// fifo is a growable ring buffer. It allocates only when it must grow, so a
// steady load runs without allocation.
type fifo[T any] struct {
	buf  []T // power of two
	head int
	n    int
}

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.buf) {
		f.grow()
	}
	f.buf[(f.head+f.n)&(len(f.buf)-1)] = v
	f.n++
}

func (f *fifo[T]) grow() {
	next := make([]T, max(8, 2*len(f.buf)))
	for i := range f.n {
		next[i] = f.buf[(f.head+i)&(len(f.buf)-1)]
	}
	f.buf, f.head = next, 0
}

// front points at the oldest element; the fifo must not be empty.
func (f *fifo[T]) front() *T { return &f.buf[f.head] }

// back points at the newest element; the fifo must not be empty.
func (f *fifo[T]) back() *T { return &f.buf[(f.head+f.n-1)&(len(f.buf)-1)] }

func (f *fifo[T]) pop() T {
	v := f.buf[f.head]
	var zero T
	f.buf[f.head] = zero
	f.head = (f.head + 1) & (len(f.buf) - 1)
	f.n--
	return v
}
