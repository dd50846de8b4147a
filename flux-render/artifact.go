package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"
)

// artifact shows of a checkout what source-controller would pack into its artifact: regular files and directories that
// are not ignored. It is read in place, and by os.Root, which follows no link out of the checkout.
type artifact struct {
	files fs.FS
	// shown says of each path whether it is a directory.
	shown map[string]bool
	links map[string]bool
}

type entry struct {
	name      string
	directory bool
}

// openArtifact reads the names of all files of the checkout, and its .sourceignore files.
func openArtifact(dir string, ignore *string) (*artifact, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the checkout cannot be opened: %w", unwrapPath(err))
	}
	opened := &artifact{files: root.FS(), shown: map[string]bool{".": true}, links: map[string]bool{}}
	var entries []entry
	var patterns []gitignore.Pattern
	err = fs.WalkDir(opened.files, ".", func(name string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch mode := found.Type(); {
		case mode.IsDir():
			own, err := readIgnoreFile(opened.files, name)
			if err != nil {
				return err
			}
			patterns = append(patterns, own...)
		case mode&fs.ModeSymlink != 0:
			opened.links[name] = true
			return nil
		case !mode.IsRegular():
			return nil
		}
		entries = append(entries, entry{name: name, directory: found.IsDir()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if ignore != nil {
		patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(*ignore), nil)...)
	}
	matcher := toMatcher(patterns)
	for _, found := range entries {
		// An ignored directory does not hide what is in it: source-controller matches each path for itself.
		if found.name != "." && !matcher.Match(strings.Split(found.name, "/"), found.directory) {
			opened.show(found)
		}
	}
	return opened, nil
}

func (a *artifact) show(found entry) {
	a.shown[found.name] = found.directory
	for parent := path.Dir(found.name); !a.shown[parent]; parent = path.Dir(parent) {
		a.shown[parent] = true
	}
}

// readIgnoreFile returns the patterns of a directory's own .sourceignore.
func readIgnoreFile(files fs.FS, dir string) ([]gitignore.Pattern, error) {
	name := path.Join(dir, sourceignore.IgnoreFile)
	if found, err := fs.Stat(files, name); err != nil || !found.Mode().IsRegular() {
		if err == nil || os.IsNotExist(err) {
			return nil, nil
		}
		return nil, err
	}
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var domain []string
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	return sourceignore.ReadPatterns(file, domain), nil
}

// toMatcher ignores what source-controller ignores: with patterns of the user, these and files of git alone.
func toMatcher(patterns []gitignore.Pattern) gitignore.Matcher {
	if len(patterns) == 0 {
		return sourceignore.NewDefaultMatcher(nil, nil)
	}
	return sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))
}

func (a *artifact) Open(name string) (fs.File, error) {
	if _, shown := a.shown[name]; !shown {
		return nil, a.missing("open", name)
	}
	return a.files.Open(name)
}

func (a *artifact) Stat(name string) (fs.FileInfo, error) {
	if _, shown := a.shown[name]; !shown {
		return nil, a.missing("stat", name)
	}
	return fs.Stat(a.files, name)
}

func (a *artifact) ReadDir(name string) ([]fs.DirEntry, error) {
	if !a.shown[name] {
		return nil, a.missing("open", name)
	}
	entries, err := fs.ReadDir(a.files, name)
	shown := entries[:0]
	for _, entry := range entries {
		if _, ok := a.shown[path.Join(name, entry.Name())]; ok {
			shown = append(shown, entry)
		}
	}
	return shown, err
}

// missing is the error of a path that is not shown, in the words of the operating system.
func (a *artifact) missing(operation, name string) error {
	for at := name; at != "."; at = path.Dir(at) {
		if a.links[at] {
			return &fs.PathError{Op: operation, Path: name, Err: fmt.Errorf("%s is a symbolic link, which Flux leaves out of artifacts: %w", at, syscall.ENOENT)}
		}
	}
	return &fs.PathError{Op: operation, Path: name, Err: syscall.ENOENT}
}
