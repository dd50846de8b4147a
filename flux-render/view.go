package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mount is where kustomize finds the artifact. The directory does not exist: no path of this machine is known to
// kustomize, so none can be in its errors.
const mount = "/artifact"

// view is the artifact as the file system of one build. It is read-only, and remembers which files were read.
type view struct {
	artifact *artifact
	// names are those of the files that were read.
	names map[string]bool
	// refused is why the build must not go on. kustomize hides some errors of reading a file.
	refused error
}

var _ filesys.FileSystem = (*view)(nil)

func newView(artifact *artifact) *view {
	return &view{artifact: artifact, names: map[string]bool{}}
}

// filesRead returns the paths of the files that were read, sorted.
func (v *view) filesRead() []string {
	return append([]string{}, slices.Sorted(maps.Keys(v.names))...)
}

// toName translates a path of the build to a name in the artifact.
func toName(at string) (string, error) {
	clean := filepath.Clean(at)
	if clean == mount {
		return ".", nil
	}
	name, below := strings.CutPrefix(clean, mount+"/")
	if !below {
		return "", &fs.PathError{Op: "open", Path: clean, Err: errors.New("outside of the source")}
	}
	return name, nil
}

func toPath(name string) string { return path.Join(mount, name) }

func (v *view) ReadFile(at string) ([]byte, error) {
	name, err := toName(at)
	if err != nil {
		return nil, err
	}
	if v.artifact.shown[name] {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	content, err := v.read(name, 0)
	if err != nil {
		return nil, err
	}
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
		if err := refuseRemote(name, content); err != nil {
			v.refused = err
			return nil, err
		}
	}
	return content, nil
}

// read returns the content of a file, and remembers its name. A limit of 0 is none.
func (v *view) read(name string, maxBytes int64) ([]byte, error) {
	info, err := v.artifact.Stat(name)
	if err != nil {
		return nil, err
	}
	if maxBytes > 0 && info.Size() > maxBytes {
		return nil, fmt.Errorf("cannot load file %s as file size (%d) exceeds limit (%d)", name, info.Size(), maxBytes)
	}
	content, err := fs.ReadFile(v.artifact, name)
	if err != nil {
		return nil, err
	}
	v.names[name] = true
	if err := refuseBomb(name, content); err != nil {
		v.refused = err
		return nil, err
	}
	return content, nil
}

// Open returns a copy of the file.
func (v *view) Open(at string) (filesys.File, error) {
	content, err := v.ReadFile(at)
	if err != nil {
		return nil, err
	}
	copied := filesys.MakeFsInMemory()
	if err := copied.WriteFile(at, content); err != nil {
		return nil, err
	}
	return copied.Open(at)
}

func (v *view) Exists(at string) bool {
	name, err := toName(at)
	_, shown := v.artifact.shown[name]
	return err == nil && shown
}

func (v *view) IsDir(at string) bool {
	name, err := toName(at)
	return err == nil && v.artifact.shown[name]
}

func (v *view) ReadDir(at string) ([]string, error) {
	name, err := toName(at)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(v.artifact, name)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

func (v *view) CleanedAbs(at string) (filesys.ConfirmedDir, string, error) {
	name, err := toName(at)
	if err != nil {
		return "", "", err
	}
	directory, shown := v.artifact.shown[name]
	switch {
	case !shown:
		return "", "", fmt.Errorf("evalsymlink failure on '%s' : %w", name, v.artifact.missing("lstat", name)) // as kustomize says it
	case directory:
		return filesys.ConfirmedDir(toPath(name)), "", nil
	default:
		return filesys.ConfirmedDir(toPath(path.Dir(name))), path.Base(name), nil
	}
}

func (v *view) Glob(pattern string) ([]string, error) {
	name, err := toName(pattern)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(v.artifact, name)
	for at, name := range names {
		names[at] = toPath(name)
	}
	return names, err
}

func (v *view) Walk(at string, visit filepath.WalkFunc) error {
	name, err := toName(at)
	if err != nil {
		return err
	}
	return fs.WalkDir(v.artifact, name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return visit(toPath(name), nil, err)
		}
		info, err := entry.Info()
		return visit(toPath(name), info, err)
	})
}

var errReadOnly = fmt.Errorf("the source is read-only: %w", fs.ErrPermission)

func (v *view) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (v *view) Mkdir(string) error                  { return errReadOnly }
func (v *view) MkdirAll(string) error               { return errReadOnly }
func (v *view) RemoveAll(string) error              { return errReadOnly }
func (v *view) WriteFile(string, []byte) error      { return errReadOnly }
