package dataplane

import "unsafe"

// sessionAt finds the session whose region holds an address.
func (w *worker) sessionAt(addr uintptr) *appQueue {
	for _, s := range w.sessions {
		if s == nil {
			continue
		}
		for _, mem := range s.mem {
			if len(mem) > 0 {
				first := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
				if addr >= first && addr < first+uintptr(len(mem)) {
					return s
				}
			}
		}
	}
	return nil
}
