# The command `cwnet` in a container.
#   docker build .                                      PyTorch as the package index has it, with CUDA
#   docker build --build-arg TORCH_INDEX=<address> .    from PyTorch's own index, such as that of its small CPU builds
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
ARG TORCH_INDEX=
RUN pip install --no-cache-dir torch ${TORCH_INDEX:+--index-url ${TORCH_INDEX}}
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/cwnet-*.whl)[chem]" && rm -r /wheels && useradd --create-home cwnet
USER cwnet
WORKDIR /home/cwnet
ENTRYPOINT ["cwnet"]
CMD ["--help"]
