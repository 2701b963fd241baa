package deploy_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/metaroced/metaroced/cmd/metaroced/config"
)

var commentedKey = regexp.MustCompile(`(?m)^# ([a-z_]+ = )`)

// The example is accepted, and what it says about defaults is true: with every
// commented-out key in force it means the same.
func TestExampleShowsTheDefaults(t *testing.T) {
	asShipped, err := config.Load("metaroced.toml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("metaroced.toml")
	if err != nil {
		t.Fatal(err)
	}
	spelledOut := commentedKey.ReplaceAll(text, []byte("$1"))
	path := filepath.Join(t.TempDir(), "spelled-out.toml")
	if err := os.WriteFile(path, spelledOut, 0o600); err != nil {
		t.Fatal(err)
	}
	withDefaults, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(asShipped, withDefaults) {
		t.Errorf("the example's defaults differ:\nas shipped  %+v\nspelled out %+v", asShipped, withDefaults)
	}
}
