package dataplane

import "golang.org/x/sys/unix"

// emptyLoops is how many loops without work pass before a spinning worker gives
// its core away: switching threads costs more than looking again.
const emptyLoops = 32

// idle is called when a loop found nothing to do. The worker spins for a while,
// giving the core away each time, then sleeps.
func (w *worker) idle() {
	if w.idleSince == 0 {
		w.idleSince = w.now
	}
	if w.cfg.Poll == PollBusy || w.cfg.Poll == PollAdaptive && w.now-w.idleSince < int64(w.cfg.Spin) {
		if w.empty++; w.empty%emptyLoops == 0 {
			yield()
		}
		return
	}
	w.sleep()
}

// sleep waits for packets, submissions, requests or the next deadline. Every
// queue is asked for a wake first and looked at once more, so none is missed.
func (w *worker) sleep() {
	awake := false
	for _, s := range w.active {
		if len(s.overflow) > 0 || !w.rest(s) {
			awake = true
			continue
		}
	}
	kept := w.active[:0]
	for _, s := range w.active {
		if s.active {
			kept = append(kept, s)
		}
	}
	clear(w.active[len(kept):])
	w.active = kept
	if awake && len(kept) > 0 && w.waitingOnlyForRoom() {
		awake = false
	}
	if awake || w.waiting.Load() {
		return
	}
	until := min(w.engine.Deadline(), w.now+maxSleepNanos)
	if len(kept) > 0 || w.unsent() {
		until = min(until, w.now+retryNanos)
	}
	for _, s := range w.resting {
		if !s.hungUp {
			until = min(until, s.restTill)
		}
	}
	w.clock()
	if until <= w.now {
		return
	}
	w.counters.Sleeps++
	w.waiter.sleep(until - w.now)
	w.lookAtSockets()
}

// retryNanos is how soon a sleeping worker looks again at a completion queue
// or a stream that was full, or at packets that the kernel had no memory for.
const retryNanos = 1_000_000

// unsent says whether the kernel still has packets of ours to take.
func (w *worker) unsent() bool {
	for i := range w.planes {
		if p := &w.planes[i]; p.up && p.port.Unsent() > 0 {
			return true
		}
	}
	return false
}

// waitingOnlyForRoom says whether every queue that keeps the worker awake does
// so because its application does not reap, or because its stream is full: a
// packet that makes room there ends the sleep.
func (w *worker) waitingOnlyForRoom() bool {
	for _, s := range w.active {
		if len(s.overflow) == 0 && s.cq.Free() > s.reserved && !s.blocked {
			return false
		}
	}
	return true
}

// lookAtSockets takes the wakes of sessions and of the mailbox.
func (w *worker) lookAtSockets() {
	n := w.waiter.ready()
	for i := range n {
		ev := &w.waiter.events[i]
		switch ev.Pad {
		case waitMailbox:
			w.drain()
		case waitSession:
			if s := w.sessions[ev.Fd]; s != nil {
				w.woken(s, ev.Events)
			}
		}
	}
	if len(w.resting) > 0 {
		w.endRests()
	}
}

// woken looks at the queue of a session that sent a wake. A session that wakes
// the worker for nothing again and again is not listened to for a while.
func (w *worker) woken(s *appQueue, events uint32) {
	s.hush()
	s.wakes++
	if s.wakes > maxIdleWakes || events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.waiter.remove(s.wakeFD)
		s.restTill = w.now + restNanos
		s.hungUp = events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
		w.resting = append(w.resting, s)
	}
	s.lastWork = w.now
	w.activate(s)
}

// endRests listens again to sessions whose rest is over. One that has hung up
// stays unheard until the control plane ends it.
func (w *worker) endRests() {
	kept := w.resting[:0]
	for _, s := range w.resting {
		switch {
		case s.gone:
		case w.now < s.restTill || s.hungUp:
			kept = append(kept, s)
		default:
			s.wakes = 0
			if err := w.waiter.add(s.wakeFD, waitSession, s.slot); err != nil {
				s.fail(err)
				w.broken = append(w.broken, s)
			}
		}
	}
	clear(w.resting[len(kept):])
	w.resting = kept
}
