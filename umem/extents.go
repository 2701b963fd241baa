package umem

import "slices"

// extent is a run of frames.
type extent struct{ first, count uint32 }

// extents are runs of frames that belong to nobody, ascending, no two adjacent.
type extents []extent

// take removes count frames from the first run that has them.
func (e *extents) take(count uint32) (first uint32, ok bool) {
	for i := range *e {
		run := &(*e)[i]
		if run.count < count {
			continue
		}
		first = run.first
		run.first += count
		run.count -= count
		if run.count == 0 {
			*e = slices.Delete(*e, i, i+1)
		}
		return first, true
	}
	return 0, false
}

// give adds a run that was taken before, and joins it with its neighbours.
func (e *extents) give(first, count uint32) {
	i, _ := slices.BinarySearchFunc(*e, first, func(run extent, at uint32) int { return int(run.first) - int(at) })
	*e = slices.Insert(*e, i, extent{first, count})
	if i+1 < len(*e) && (*e)[i].first+(*e)[i].count == (*e)[i+1].first {
		(*e)[i].count += (*e)[i+1].count
		*e = slices.Delete(*e, i+1, i+2)
	}
	if i > 0 && (*e)[i-1].first+(*e)[i-1].count == (*e)[i].first {
		(*e)[i-1].count += (*e)[i].count
		*e = slices.Delete(*e, i, i+1)
	}
}

// total is the number of frames in all runs.
func (e extents) total() uint32 {
	var n uint32
	for _, run := range e {
		n += run.count
	}
	return n
}
