package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestArtifactShowsWhatSourceControllerPacks(t *testing.T) {
	for name, test := range map[string]struct {
		files   map[string]string
		ignore  *string
		visible []string
	}{
		"by default, files of git and CI, pictures and SOPS settings are hidden": {
			files:   map[string]string{"a.yaml": "", ".git/config": "", ".github/b.yaml": "", "c.png": "", "d/.sops.yaml": "", "d/e.yaml": ""},
			visible: []string{"a.yaml", "d/e.yaml"},
		},
		"patterns of the user replace these, except for git": {
			files:   map[string]string{"a.yaml": "", ".git/config": "", ".github/b.yaml": "", "c.png": ""},
			ignore:  new("a.yaml\n"),
			visible: []string{".github/b.yaml", "c.png"},
		},
		"a file of patterns applies below its directory, and spec.ignore wins": {
			files:   map[string]string{"x/.sourceignore": "*.yaml\n", "x/a.yaml": "", "x/b/c.yaml": "", "d.yaml": ""},
			ignore:  new("!x/a.yaml\n"),
			visible: []string{"d.yaml", "x/.sourceignore", "x/a.yaml"},
		},
		"one directory only": {
			files:   map[string]string{"a.yaml": "", "deploy/b.yaml": "", "deploy/c/d.yaml": ""},
			ignore:  new("/*\n!/deploy\n"),
			visible: []string{"deploy/b.yaml", "deploy/c/d.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opened := openTestArtifact(t, test.files, test.ignore)
			var visible []string
			for path, directory := range opened.shown {
				if !directory {
					visible = append(visible, path)
				}
			}
			slices.Sort(visible)
			if !slices.Equal(visible, test.visible) {
				t.Errorf("visible are %q instead of %q", visible, test.visible)
			}
		})
	}
}

func TestLinksAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	for link, target := range map[string]string{"file": "/etc/hostname", "dir": "/etc", "inside": "a.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := openArtifact(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	source := newView(opened)
	for _, name := range []string{"file", "dir/hostname", "inside", "../" + filepath.Base(dir) + "/file", "/etc/hostname"} {
		if _, err := source.ReadFile(toPath("") + "/" + name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func openTestArtifact(t *testing.T, files map[string]string, ignore *string) *artifact {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := openArtifact(dir, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}
