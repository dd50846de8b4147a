package main

import (
	"context"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	"github.com/go-logr/logr"
	"helm.sh/helm/v4/pkg/chart/common"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// valuesObject is a ConfigMap or Secret that `valuesFrom` may name, in the namespace of the HelmRelease.
type valuesObject struct {
	Kind string            `json:"kind"`
	Name string            `json:"name"`
	Data map[string]string `json:"data"`
}

// valuesOf merges the values as helm-controller does.
func valuesOf(release *helmv2.HelmRelease, objects []valuesObject) (common.Values, error) {
	for _, object := range objects {
		for key, text := range object.Data {
			if err := refuseBomb(fmt.Sprintf("key '%s' of %s '%s'", key, object.Kind, object.Name), []byte(text)); err != nil {
				return nil, err
			}
		}
	}
	client := knownObjects{objects: objects}
	return chartutil.ChartValuesFromReferences(context.Background(), logr.Discard(), client, release.Namespace, release.GetValues(), release.Spec.ValuesFrom...)
}

// knownObjects is a cluster in which there is nothing but these objects.
type knownObjects struct {
	kubeclient.Client
	objects []valuesObject
}

func (k knownObjects) Get(_ context.Context, key kubeclient.ObjectKey, into kubeclient.Object, _ ...kubeclient.GetOption) error {
	kind := "ConfigMap"
	if _, secret := into.(*corev1.Secret); secret {
		kind = "Secret"
	}
	for _, object := range k.objects {
		if object.Kind != kind || object.Name != key.Name {
			continue
		}
		switch into := into.(type) {
		case *corev1.ConfigMap:
			into.Data = object.Data
		case *corev1.Secret:
			into.Data = map[string][]byte{}
			for name, text := range object.Data {
				into.Data[name] = []byte(text)
			}
		}
		return nil
	}
	resource := map[string]string{"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, key.Name)
}
