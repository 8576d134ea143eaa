# syntax=docker/dockerfile:1
# Two stages: one builds the wheel and the environment, the other carries nothing but Python and that environment.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN python -m venv /opt/berth
COPY requirements.lock ./
RUN /opt/berth/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app ./app
RUN pip wheel --no-deps --wheel-dir /wheels . && /opt/berth/bin/pip install --no-deps /wheels/*.whl

FROM python:3.13-slim
COPY --from=build /opt/berth /opt/berth
ENV PATH=/opt/berth/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10000:10000
EXPOSE 8443 8444
ENTRYPOINT ["berth"]
CMD ["webhook"]
