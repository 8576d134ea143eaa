"""The messages (`_pb`) and services (`_grpc`) of kubelet on a node, as `make protos` generates them."""

from app.rmd.proto.deviceplugin.v1beta1 import deviceplugin_pb2 as plugin_pb
from app.rmd.proto.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as plugin_grpc
from app.rmd.proto.podresources.v1 import podresources_pb2 as resources_pb
from app.rmd.proto.podresources.v1 import podresources_pb2_grpc as resources_grpc

__all__ = ["plugin_grpc", "plugin_pb", "resources_grpc", "resources_pb"]
