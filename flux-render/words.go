package main

import (
	"errors"
	"io/fs"
	"runtime/debug"
	"strings"
	"unicode/utf8"
)

// maxErrorBytes is where Flux cuts messages of conditions.
const maxErrorBytes = 20_000

var toReadable = strings.NewReplacer(
	mount+"/", "",
	mount, ".",
	`no 'git' program on path: exec: "git": executable file not found in $PATH`, errRemote.Error(),
)

// toWords returns the error as the controller's condition would say it, with paths of the repository.
func toWords(err error) string {
	text := toReadable.Replace(err.Error())
	if len(text) <= maxErrorBytes {
		return text
	}
	end := maxErrorBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// unwrapPath removes a path of this machine from the error.
func unwrapPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func controllerVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/fluxcd/kustomize-controller/api" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}
