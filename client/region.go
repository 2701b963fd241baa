package client

import (
	"context"
	"fmt"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/umem"
)

// Access says what a peer that knows a region's key may do to it.
type Access uint32

// Access rights, to be combined. Without any the region is of local use only.
const (
	RemoteRead Access = 1 << iota
	RemoteWrite
	RemoteAtomic
)

// Region is memory that can be sent from and written to by peers.
type Region struct {
	session *Session
	id      uint32
	key     uint64
	size    int64
	memory  []byte // whole slabs, at least size; nil after Close
}

// AllocRegion asks the daemon for size bytes of zeroed memory. The daemon
// charges it to this session's quota.
func (s *Session) AllocRegion(size int64, access Access) (*Region, error) {
	r, err := s.allocRegion(size, access)
	if err != nil {
		return nil, fmt.Errorf("metaroced: allocate a region of %d bytes: %w", size, err)
	}
	return r, nil
}

func (s *Session) allocRegion(size int64, access Access) (*Region, error) {
	if size <= 0 {
		return nil, fmt.Errorf("size must be positive")
	}
	var slabs []umem.SlabFD
	defer func() {
		for _, slab := range slabs { // a mapping needs no descriptor
			slab.File.Close()
		}
	}()
	info, err := s.fetchSlabs(&msg.AllocRegion{Size: uint64(size), Access: uint32(access)}, &slabs)
	if err != nil {
		return nil, err
	}
	r := &Region{session: s, id: info.Region, key: info.Key, size: size}
	err = s.fetchRest(info, &slabs)
	if err == nil {
		err = r.mapSlabs(slabs)
	}
	if err != nil {
		_ = s.simple(context.Background(), &msg.FreeRegion{Region: r.id}) // the first error counts
		return nil, err
	}
	return r, nil
}

// fetchRest asks for the slabs that did not fit into the first reply: a daemon
// leaves a bounded number of descriptors unread.
func (s *Session) fetchRest(info *msg.Region, slabs *[]umem.SlabFD) error {
	for len(*slabs) < int(info.Slabs) {
		first := uint32(len(*slabs))
		more, err := s.fetchSlabs(&msg.GetSlabs{Region: info.Region, First: first}, slabs)
		if err != nil {
			return err
		}
		if more.Region != info.Region || more.First != first || more.Slabs != info.Slabs {
			return protocolError(more, len(*slabs))
		}
	}
	return nil
}

// fetchSlabs makes a request that a Region message answers.
func (s *Session) fetchSlabs(m msg.Message, slabs *[]umem.SlabFD) (*msg.Region, error) {
	reply, files, err := s.request(context.Background(), m)
	if err != nil {
		return nil, err
	}
	info, ok := reply.(*msg.Region)
	if !ok || len(files) != len(info.SlabBytes) {
		closeAll(files)
		return nil, protocolError(reply, len(files))
	}
	for i, f := range files {
		*slabs = append(*slabs, umem.SlabFD{File: f, Bytes: int64(info.SlabBytes[i])})
	}
	return info, nil
}

// mapSlabs maps the region and enters it into the session's table.
func (r *Region) mapSlabs(slabs []umem.SlabFD) error {
	memory, err := umem.MapRegion(slabs)
	if err != nil {
		return err
	}
	r.memory = memory
	if int64(len(memory)) < r.size {
		_ = r.unmap() // the first error counts
		return fmt.Errorf("daemon gave %d bytes", len(memory))
	}
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Load() == stateClosed { // Close would not find it any more
		_ = r.unmap() // the first error counts
		return ErrClosed
	}
	s.tables.regions[r] = struct{}{}
	return nil
}

// Bytes is the region's memory, nil after Close.
func (r *Region) Bytes() []byte {
	if r.memory == nil {
		return nil
	}
	return r.memory[:r.size:r.size]
}

// Key is what a peer names the region by; the application tells it the peer.
func (r *Region) Key() uint64 { return r.key }

// ID is the region's number within the session.
func (r *Region) ID() uint32 { return r.id }

// Size is the size in bytes that was asked for.
func (r *Region) Size() int64 { return r.size }

// Close gives the region back: peers can no longer reach it, and its bytes must
// not be touched any more. It must not overlap a Write from the region. Closing
// twice is harmless.
func (r *Region) Close() error {
	s := r.session
	s.mu.Lock()
	_, open := s.tables.regions[r]
	delete(s.tables.regions, r)
	s.mu.Unlock()
	if !open {
		return nil
	}
	freeErr := s.simple(context.Background(), &msg.FreeRegion{Region: r.id})
	unmapErr := r.unmap()
	if freeErr != nil {
		return fmt.Errorf("metaroced: free region %d: %w", r.id, freeErr)
	}
	return unmapErr
}

func (r *Region) unmap() error {
	memory := r.memory
	r.memory = nil
	return umem.UnmapRegion(memory)
}
