package bars

import (
	"fmt"
	"math"
	"strconv"
)

// Bar is a figure beside what it must reach.
type Bar struct {
	Part     Part     `json:"part"`
	What     string   `json:"what"`
	Value    *float64 `json:"value"` // null: what was to be measured did not happen
	Unit     string   `json:"unit"`
	Relation string   `json:"relation"` // of the value to the limit: ">=", "<=" or "<"
	Limit    float64  `json:"limit"`
	Goal     *float64 `json:"goal,omitempty"` // beyond the limit, in the same relation; it does not decide
	Pass     bool     `json:"pass"`
}

func atLeast(what string, value, limit float64) Bar { return newBar(what, "", ">=", value, limit) }

func atMost(what, unit string, value, limit float64) Bar {
	return newBar(what, unit, "<=", value, limit)
}

func below(what, unit string, value, limit float64) Bar { return newBar(what, unit, "<", value, limit) }

// newBar judges. A value that is no finite number stands for something that did
// not happen, which passes no bar.
func newBar(what, unit, relation string, value, limit float64) Bar {
	b := Bar{What: what, Unit: unit, Relation: relation, Limit: limit}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return b
	}
	b.Value = &value
	b.Pass = b.reaches(limit)
	return b
}

func (b *Bar) reaches(limit float64) bool {
	switch b.Relation {
	case ">=":
		return *b.Value >= limit
	case "<=":
		return *b.Value <= limit
	}
	return *b.Value < limit
}

// withGoal adds a goal.
func (b Bar) withGoal(goal float64) Bar {
	b.Goal = &goal
	return b
}

// verdict returns the words for the outcome.
func (b *Bar) verdict() string {
	switch {
	case !b.Pass:
		return "FAIL"
	case b.Goal == nil:
		return "pass"
	case b.reaches(*b.Goal):
		return "pass, goal reached"
	}
	return fmt.Sprintf("pass, goal %s not reached", b.number(*b.Goal))
}

// number prints a value with its unit.
func (b *Bar) number(value float64) string {
	text := strconv.FormatFloat(value, 'f', 2, 64)
	if value == math.Trunc(value) {
		text = strconv.FormatFloat(value, 'f', 0, 64)
	}
	if b.Unit != "" {
		text += " " + b.Unit
	}
	return text
}

// measured prints the value.
func (b *Bar) measured() string {
	if b.Value == nil {
		return "never"
	}
	return b.number(*b.Value)
}
