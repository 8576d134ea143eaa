-- What wrk sends and how it checks the answers: the reviews of a file, made in advance, one after another.
-- wrk -t1 … -- FILE START PATH SIZE PREFIX SUFFIX ; prints one line of JSON at the end.

local requests, place, size, prefix, suffix = {}, 0, 0, "", ""
bad, began = 0, 0

function setup(thread)
  worker = thread
end

-- Runs before the first connection: nothing is built while the time runs.
function init(args)
  local path
  place, path, size, prefix, suffix = tonumber(args[2]), args[3], tonumber(args[4]), args[5], args[6]
  local bodies = {}
  for body in io.lines(args[1]) do
    bodies[#bodies + 1] = body
  end
  -- Each time through the file the reviews are others.
  local turn = math.floor(place / #bodies)
  place = place % #bodies
  for number, made in ipairs(bodies) do
    local body = made:gsub("%.t00%.", string.format(".t%02d.", (number > place and turn or turn + 1) % 100))
    requests[number] = "POST " .. path .. " HTTP/1.1\r\nHost: localhost\r\n"
      .. "User-Agent: kube-apiserver-admission\r\nAccept: application/json, */*\r\n"
      .. "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
  end
  collectgarbage()
  began = os.clock()
end

function request()
  place = place % #requests + 1
  return requests[place]
end

function response(status, headers, body)
  if status ~= 200 or #body ~= size or body:sub(1, #prefix) ~= prefix or body:sub(-#suffix) ~= suffix then
    bad = bad + 1
    example = status .. " " .. body:sub(1, 500)
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"answers":%d,"seconds":%.6f,"p50":%.6f,"p99":%.6f,"cpu":%.6f,"bad":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    os.clock() - worker:get("began"), worker:get("bad"),
    errors.connect + errors.read + errors.write + errors.timeout
  ))
  if worker:get("example") then
    io.stderr:write(worker:get("example"), "\n")
  end
end
