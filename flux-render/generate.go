package main

import (
	"reflect"
	"unsafe"

	generator "github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// generate returns the kustomization file that Flux would write into the directory, and its path.
//
// Flux's generator can return the file without writing it, but it reads a directory of the machine. It has a field for
// another file system that nothing exported sets. Setting it here spares a copy of the source on disk, without what
// source-controller leaves out of artifacts, and so any permission to write. A version without the field panics in each
// test.
func generate(source filesys.FileSystem, kustomization unstructured.Unstructured, dir string) ([]byte, string, error) {
	flux := generator.NewGenerator(mount, kustomization)
	field := reflect.ValueOf(flux).Elem().FieldByName("fs")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(source))
	manifest, file, _, err := flux.GenerateManifest(dir)
	return manifest, file, err
}
