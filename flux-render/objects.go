package main

import (
	"fmt"
	"sort"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finish does to the built objects what Flux does before it applies them. Objects that SOPS encrypted keep their `sops`
// field and their encrypted values, which are no valid data of a Secret.
func finish(objects []*unstructured.Unstructured, kustomization *kustomizev1.Kustomization) error {
	owner := ssa.NewResourceManager(nil, nil, ssa.Owner{Group: kustomizev1.GroupVersion.Group})
	owner.SetOwnerLabels(objects, kustomization.Name, kustomization.Namespace)
	if err := normalize.UnstructuredList(withoutEncrypted(objects)); err != nil {
		return err
	}
	if common := kustomization.Spec.CommonMetadata; common != nil {
		ssautil.SetCommonMetadata(objects, common.Labels, common.Annotations)
	}
	for _, object := range objects {
		if isDeeper(object.Object, maxDepth) {
			return fmt.Errorf("%s is nested deeper than %d levels", ssautil.FmtUnstructured(object), maxDepth)
		}
	}
	return nil
}

// maxDepth is ten times the depth of real definitions of custom resources. It spares readers of the answer a recursion that
// their stack does not hold.
const maxDepth = 500

func isDeeper(value any, levels int) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			if levels == 0 || isDeeper(field, levels-1) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if levels == 0 || isDeeper(item, levels-1) {
				return true
			}
		}
	}
	return false
}

func withoutEncrypted(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var plain []*unstructured.Unstructured
	for _, object := range objects {
		if _, encrypted := object.Object["sops"]; !encrypted {
			plain = append(plain, object)
		}
	}
	return plain
}

// inOrderOfApply sorts the objects by Flux's stages, and by kind, namespace and name in each of them.
func inOrderOfApply(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var stages [3]ssa.SortableUnstructureds
	for _, object := range objects {
		stage := 2
		switch {
		case ssautil.IsClusterDefinition(object):
			stage = 0
		case ssautil.IsClassDefinition(object):
			stage = 1
		}
		stages[stage] = append(stages[stage], object)
	}
	ordered := []*unstructured.Unstructured{}
	for _, stage := range stages {
		sort.Sort(stage)
		ordered = append(ordered, stage...)
	}
	return ordered
}
