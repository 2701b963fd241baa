package transport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// cookieNanos is how long a cookie is good: it is valid in the period it was
// made in and in the next.
const cookieNanos = 10_000_000_000

// cookie proves, without state, that whoever asks can receive at its address
// (docs/PROTOCOL.md, "Flood of set-ups").
func (e *Engine) cookie(now int64, from wire.Addr, nonce uint64) []byte {
	return e.cookieOf(now/cookieNanos, from, nonce)
}

func (e *Engine) cookieOf(period int64, from wire.Addr, nonce uint64) []byte {
	var key [16]byte
	binary.BigEndian.PutUint64(key[:], e.secret[0])
	binary.BigEndian.PutUint64(key[8:], e.secret[1])
	var m [34]byte
	copy(m[:16], from.IP[:])
	binary.BigEndian.PutUint16(m[16:], from.Port)
	binary.BigEndian.PutUint64(m[18:], nonce)
	binary.BigEndian.PutUint64(m[26:], uint64(period))
	h := hmac.New(sha256.New, key[:])
	h.Write(m[:])
	return h.Sum(nil)[:16]
}

func (e *Engine) cookieValid(now int64, from wire.Addr, nonce uint64, cookie []byte) bool {
	period := now / cookieNanos
	return hmac.Equal(cookie, e.cookieOf(period, from, nonce)) ||
		hmac.Equal(cookie, e.cookieOf(period-1, from, nonce))
}
